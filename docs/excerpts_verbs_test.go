//go:build unix

package docs

//lint:file-ignore SA4006 pages show calls without the handling of each error

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestVerbsExcerpts runs what docs/verbs.md quotes.
func TestVerbsExcerpts(t *testing.T) {
	network := verbstest.NewSimulatedNetwork()
	server, err := network.Open("dev0") // a name makes a device
	client, err := network.Open("dev1")
	if err != nil {
		t.Fatal(err)
	}
	if server.Name() != "dev0" || client.Name() != "dev1" {
		t.Errorf("devices %s and %s", server.Name(), client.Name())
	}
	if err := errors.Join(server.Close(), client.Close()); err != nil {
		t.Error(err)
	}
}
