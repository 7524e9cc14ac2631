module github.com/ibrun/ibrun

go 1.26.0

require (
	github.com/Mellanox/rdmamap v1.2.0
	github.com/ebitengine/purego v0.11.3
	github.com/guptarohit/asciigraph v0.10.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require (
	github.com/vishvananda/netns v0.0.5 // indirect
	golang.org/x/tools v0.26.0 // indirect
)
