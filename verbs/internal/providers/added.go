package providers

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// added has the providers that Add has added, by name. Package verbs opens devices by the name of a provider, since its public
// functions take no types that only this module has.
var added struct {
	byName sync.Map
	count  atomic.Int64
}

// Add adds a provider, and returns a name by which Added finds it until remove is called. The name begins with a NUL, so it is
// none that a program would choose.
func Add(p ib.Provider) (name string, remove func()) {
	name = fmt.Sprintf("\x00%d", added.count.Add(1))
	added.byName.Store(name, p)
	return name, func() { added.byName.Delete(name) }
}

// Added returns the provider that was added under a name.
func Added(name string) (ib.Provider, bool) {
	p, ok := added.byName.Load(name)
	if !ok {
		return nil, false
	}
	return p.(ib.Provider), true
}
