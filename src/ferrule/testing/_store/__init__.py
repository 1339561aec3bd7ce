"""What a store must do, one check for each sentence of its protocol."""
