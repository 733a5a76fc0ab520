// Package systest holds the tests of the whole: a hub, its servers and its
// clients together, over real processes and connections. It has no code but
// tests; what one package can prove alone is tested there.
package systest
