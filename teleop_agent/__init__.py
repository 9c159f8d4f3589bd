"""From a device sample to an environment action; never imports envs."""
