"""Training data: CIFAR, the data loader, augmentation, validation images, and the images that model.pt keeps."""
