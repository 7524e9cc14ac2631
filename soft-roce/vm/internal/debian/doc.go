// Package debian gets a kernel for guests from the packages of Debian, without installing it.
//
//	k, err := debian.Kernel(ctx, cacheDir, []string{"virtio_net", "rdma_rxe"})
//	fmt.Println(k.Image, k.Modules) // the file to boot, and the files to load, in that order
//
// The package is downloaded once; what is kept of it are the kernel and those modules with all that they depend on.
package debian
