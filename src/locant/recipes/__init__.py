"""Built-in recipes, one YAML file each."""
