package everline

import "github.com/everline/everline/internal/shim"

// RunShim lets everline start this program again as the guard of each server
// that is a process: a small copy (about 1 MiB and a few milliseconds) that
// never reaches main, passes the server's streams on untouched, and ends
// everything that the server has started when the server's slot ends, or when
// this program does, even by kill -9.
//
// Call it once, first thing in main, before Open:
//
//	func main() {
//		everline.RunShim()
//		...
//	}
//
// Without it servers are process groups: they end with their slot, but outlive
// a crash of this program, until the next start on the same Options.StateDir
// finds and ends them. The guard ends in the initialization of this module, so
// initializers of the program's other packages may run in it before; where one
// of them does more than set variables, do without. On Windows a job object
// does the same without a guard, and RunShim does nothing.
func RunShim() { shim.Allow() }
