// Package check tests the manifests in the folder above. It is a module of its own, so that ibrun does not depend on Kubernetes.
package check
