"""The settings that `clearhead init` proposes for the data."""
