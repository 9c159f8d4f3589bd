"""Episodes on disk: schema, recorder, reader, replay; never imports teleop_agent or envs."""
