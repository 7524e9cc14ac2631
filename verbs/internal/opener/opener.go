// Package opener opens devices through providers that package verbs does not list: those of simulated devices, and of tests that
// change what a device does.
package opener

import (
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/providers"
)

// Open opens a device through a provider. The context has the provider's own name.
func Open(p ib.Provider, d hw.RDMADevice) (*verbs.Context, error) {
	name, remove := providers.Add(p)
	defer remove()
	return (&verbs.Device{RDMADevice: d}).Open(verbs.Options{Provider: name})
}
