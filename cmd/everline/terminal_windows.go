package main

import "os"

// inForeground is always so: there is no background that is stopped.
func inForeground(*os.File) bool { return true }
