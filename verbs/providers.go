package verbs

import (
	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/providers"
)

// provider returns the provider with the given name, or with "" the provider that fits the device.
func (d *Device) provider(name string) (ib.Provider, error) {
	softRoCE, library := providers.SoftRoCE(), providers.Library()
	isSoftRoCE := d.RDMADevice.Provider == softRoCE.Name()
	switch {
	case name == softRoCE.Name() && !isSoftRoCE:
		return nil, &Error{Op: "open", Device: d.Name, Kind: ErrNotSupported, Detail: "the provider rxe drives Soft-RoCE devices only"}
	case name == softRoCE.Name(), name == "" && isSoftRoCE:
		return softRoCE, nil
	case name == library.Name(), name == "":
		return library, nil
	}
	return nil, &Error{Op: "open", Device: d.Name, Kind: ErrInvalid,
		Detail: "unknown provider " + name + "; choose rxe or libibverbs"}
}
