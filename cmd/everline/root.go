package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newRoot(s *streams) *cobra.Command {
	a := &app{streams: s}
	root := &cobra.Command{
		Use:           "everline",
		Short:         "One MCP endpoint for all your MCP servers, kept connected",
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			for _, o := range outputs {
				if a.output == o {
					return nil
				}
			}
			return fmt.Errorf("unknown output %q; it is one of %s", a.output, strings.Join(outputs, ", "))
		},
	}
	root.SetIn(s.stdin)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDir, "state-dir", defaultStateDir(), "folder for catalogs, the lock and the admin socket")
	flags.StringVarP(&a.output, "output", "o", "table", "how to print: "+strings.Join(outputs, ", "))
	root.AddCommand(
		newDemo(a), newDemoServer(s), newServe(a), newStdio(a), newStatus(a), newTop(a), newUI(a), newLogs(a), newEvents(a),
		newOperation(a, "restart", "Replace a server's generation by a new one"),
		newOperation(a, "reconnect", "Connect a server again immediately, whatever it is waiting for"),
		newOperation(a, "enable", "Let a disabled server run again"),
		newOperation(a, "disable", "Stop a server and refuse its calls until it is enabled"),
		newCall(a), newTools(a), newVersion(a),
		newAuth(a), newToken(a), newAudit(a), newDoctor(a), newDrill(a), newReload(a), newTrust(a), newBugreport(a), newValidate(a), newConfig(a), newAdd(a), newRemove(a), newImport(a), newLink(a), newUnlink(a),
	)
	root.SetHelpCommand(newHelp())
	completeFlags(root)
	return root
}
