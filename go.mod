module github.com/ibrun/ibrun

go 1.26.0

require (
	github.com/guptarohit/asciigraph v0.10.0
	github.com/rogpeppe/go-internal v1.16.0
	golang.org/x/sys v0.49.0
	golang.org/x/term v0.47.0
)

require golang.org/x/tools v0.26.0 // indirect
