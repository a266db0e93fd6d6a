"""The class of the installed transformers, asked what it does with a config.json. Needs the extra 'huggingface'."""
