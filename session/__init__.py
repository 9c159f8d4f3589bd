"""Join the rooms: an environment, a device, the agent and a recorder; used by collect.py only."""
