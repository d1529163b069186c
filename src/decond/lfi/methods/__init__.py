"""Methods of likelihood-free inference, one file each."""
