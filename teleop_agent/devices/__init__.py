"""Input devices behind one interface."""
