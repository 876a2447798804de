namespace oracles {}
