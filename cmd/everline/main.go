// Command everline runs the gateway and is the window on it: serve, stdio,
// status, logs, events, calls and the lifecycle by hand. It wires packages
// together and formats what they say; it decides nothing about servers.
package main

import (
	"context"
	"os"

	"github.com/everline/everline"
	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/show"
)

func main() {
	everline.RunShim()
	show.Program = startedAs(os.Args[0])
	os.Exit(run())
}

func run() int {
	stderr := newTalk(os.Stderr)
	defer stderr.close()
	stdout := &checked{to: os.Stdout}
	stdio := streams{stdin: os.Stdin, stdout: stdout, stderr: stderr}
	root := newRoot(&stdio)
	completionCommand(root)
	cmd, err := root.ExecuteContextC(context.Background())
	code := report(stderr, misused(cmd, err))
	if failed := stdout.failed.Load(); failed != nil && code == exitOK {
		return report(stderr, ran{fault.From("write the output", *failed)})
	}
	return code
}
