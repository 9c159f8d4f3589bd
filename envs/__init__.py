"""Robots, scenes and tasks as Gymnasium environments."""
