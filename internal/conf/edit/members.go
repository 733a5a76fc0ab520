package edit

import (
	"github.com/everline/everline/internal/conf/clients"
	"github.com/everline/everline/internal/conf/tree"
)

// Members are the keys of a server in the text of a file, each with a digest of
// its value, which is the same for values that mean the same. They are nil where
// the server is not there, or is no object.
func Members(format, file string, data []byte, name string) map[string]string {
	server := entryOf(format, file, data, name)
	if server == nil {
		return nil
	}
	all := map[string]string{}
	for _, f := range server.Fields {
		all[f.Name] = f.Value.Digest()
	}
	return all
}

// Token is the token that a server's entry shows to everline; "" for none.
func Token(format, file string, data []byte, name string) string {
	server := entryOf(format, file, data, name)
	if server == nil {
		return ""
	}
	return clients.TokenIn(format, server)
}

func entryOf(format, file string, data []byte, name string) *tree.Node {
	root, err := tree.Parse(file, data)
	if err != nil {
		return nil
	}
	server := root.Descend(clients.ServersPath(format, root)).Get(name)
	if server == nil || server.Kind != tree.Object {
		return nil
	}
	return server
}
