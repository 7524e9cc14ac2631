package verbstest

import (
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/providers"
)

// OpenLibrary opens a device through provider libibverbs, although the kernel does not have it: tests can load a library in place
// of the real one, whose devices are known to it only.
func OpenLibrary(d hw.RDMADevice) (*verbs.Context, error) {
	return opener.Open(providers.Library(), d)
}
