// Package conformance runs what the project did not write against it: the
// official conformance suite, real servers, and real clients. It is test code
// alone, behind the build tags conformance and interop, because it needs the
// npm packages that package.json pins; make installs them.
package conformance
