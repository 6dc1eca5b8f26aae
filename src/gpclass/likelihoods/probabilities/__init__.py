"""Class probabilities: averages of many classes' likelihoods over Gaussian latent values."""
