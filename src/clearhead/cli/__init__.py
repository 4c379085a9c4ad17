"""The command line: one module for each verb, results on stdout, everything else on stderr."""
