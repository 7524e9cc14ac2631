// Package debian extracts a kernel for guests from a Debian package, without installing it.
//
//	k, err := debian.Kernel(ctx, cacheDir, []string{"virtio_net", "rdma_rxe"})
//	fmt.Println(k.Image, k.Modules) // the file to boot, and the files to load, in that order
//
// The package is downloaded once. The cache keeps the kernel, those modules and their dependencies.
package debian
