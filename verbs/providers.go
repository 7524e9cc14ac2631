package verbs

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/providers"
)

// provider returns the provider that the options name, or else the provider that fits the device.
func (d *Device) provider(o Options) (ib.Provider, error) {
	if p, ok := providers.Added(o.Provider); ok {
		return p, nil
	}
	name := o.provider()
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
	return nil, o.unknownProvider(d.Name)
}

// CheckProvider returns an error if there is no provider of this name. "" means the one that fits the device.
func CheckProvider(name string) error {
	if isProvider(name) {
		return nil
	}
	return Options{Provider: name}.unknownProvider("")
}

// isProvider reports whether there is a provider of this name, which may be "".
func isProvider(name string) bool {
	return name == "" || name == providers.SoftRoCE().Name() || name == providers.Library().Name()
}

// unknownProvider returns the error for a provider that does not exist. It names the variable if the name comes from there.
func (o Options) unknownProvider(device string) error {
	detail := fmt.Sprintf("unknown provider %.60s; choose rxe or libibverbs", o.provider())
	if o.Provider == "" {
		detail += " (" + ProviderVariable + ")"
	}
	return &Error{Op: "open", Device: device, Kind: ErrInvalid, Detail: detail}
}
