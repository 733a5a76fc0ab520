package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/everline/everline/internal/auth"
)

func newUI(a *app) *cobra.Command {
	var noOpen, revoke bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the web page, with the right to act",
		Long: "Open the web page of the everline that runs, in a tab that may act for twelve hours: restart servers, call tools,\n" +
			"approve definitions. The address that is printed does it once, and within a minute. Looking alone needs no\n" +
			"command: the page is at /ui/ beside the endpoint.",
		Args: cobra.NoArgs,
		RunE: runE(func(cmd *cobra.Command, _ []string) error {
			if revoke {
				return a.revokePage(cmd.Context())
			}
			return a.openPage(cmd.Context(), !noOpen)
		}),
	}
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the address, and open no browser")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take the right to act from every tab that has it")
	return cmd
}

func (a *app) openPage(ctx context.Context, open bool) error {
	link, err := a.client().PageLink(ctx)
	if err != nil {
		return err
	}
	if a.output == "json" || a.output == "jsonl" {
		err = writeLine(a.stdout, link)
	} else {
		_, err = fmt.Fprintln(a.stdout, link.URL)
	}
	if err == nil && open && auth.OpenBrowser(ctx, link.URL) != nil {
		fmt.Fprintln(a.stderr, "no browser could be opened: open the address by hand")
	}
	return err
}

func (a *app) revokePage(ctx context.Context) error {
	if err := a.client().RevokePage(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.stdout, "no tab may act any more: everline ui opens one that may")
	return err
}
