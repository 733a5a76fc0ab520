// Package shim lets everline start the program again as the guard of each
// server that is a process: importing it is enough, from whatever package.
//
//	import _ "github.com/everline/everline/shim"
//
// It is everline.RunShim for a package that is not the program's main. What
// RunShim says of initializers holds here, too.
package shim

import "github.com/everline/everline/internal/shim"

func init() { shim.Allow() }
