package verbs

import (
	"fmt"

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
	return nil, unknownProvider(d.Name, name)
}

// CheckProvider returns an error if there is no provider of this name. "" means the one that fits the device.
func CheckProvider(name string) error {
	if name == "" || name == providers.SoftRoCE().Name() || name == providers.Library().Name() {
		return nil
	}
	return unknownProvider("", name)
}

func unknownProvider(device, name string) error {
	return &Error{Op: "open", Device: device, Kind: ErrInvalid,
		Detail: fmt.Sprintf("unknown provider %.60s; choose rxe or libibverbs (%s)", name, ProviderVariable)}
}
