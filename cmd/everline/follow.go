package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"

	"github.com/everline/everline/fault"
	"github.com/everline/everline/internal/admin"
	"github.com/everline/everline/internal/daemon"
)

// untilEnd gives a following command a context that ends with Ctrl-C. That is no
// failure, and neither is the end of what it follows.
func (a *app) untilEnd(parent context.Context, follow func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(parent, daemon.StopSignals...)
	defer stop()
	err := follow(ctx)
	for _, end := range []error{admin.ErrStopped, admin.ErrRemoved} {
		if errors.Is(err, end) {
			fmt.Fprintf(a.stderr, "%v\n", end)
			return nil
		}
	}
	if ctx.Err() != nil && parent.Err() == nil && errors.Is(err, &fault.Fault{Kind: fault.Canceled}) {
		return nil
	}
	return err
}
