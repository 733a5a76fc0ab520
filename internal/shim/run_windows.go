package shim

// supported is false: a job object does here what a shim does elsewhere.
const supported = false
