"""A trained model in the format of another program, found equal before it takes its place."""
