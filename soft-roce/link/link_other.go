//go:build !linux

package link

// Add is for Linux; elsewhere it returns ErrNotSupported.
func Add(name, netdev string) error {
	return &Error{Op: "add", Name: name, Netdev: netdev, Err: ErrNotSupported, Remedy: remedy}
}

// Delete is for Linux; elsewhere it returns ErrNotSupported.
func Delete(name string) error {
	return &Error{Op: "delete", Name: name, Err: ErrNotSupported, Remedy: remedy}
}

// List is for Linux; elsewhere it returns ErrNotSupported.
func List() ([]Link, error) { return nil, &Error{Op: "list", Err: ErrNotSupported, Remedy: remedy} }

const remedy = "Soft-RoCE requires Linux with the driver rdma_rxe"
