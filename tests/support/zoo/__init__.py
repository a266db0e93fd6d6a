"""Every architecture of the installed transformers, compared with what Locant reads from its config.json."""
