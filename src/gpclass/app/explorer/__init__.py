"""``gpclass explore``: a local page where hyperparameters, method and likelihood are moved."""
