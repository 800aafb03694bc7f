"""Training data: sources of images and features, the loader, augmentation, held-out images."""
