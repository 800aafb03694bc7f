"""Training data: CIFAR, the loader, augmentation, the images that model.pt keeps."""
