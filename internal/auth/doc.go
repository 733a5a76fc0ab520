// Package auth has the credentials that everline shows to servers: it gets
// them, keeps them, renews them, and says what is wrong with them. Who may use
// everline is no matter of it.
package auth
