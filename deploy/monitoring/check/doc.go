// Package check tests the files in the folder above and the dashboards in docs/dashboards. It is a module of its own, so that ibrun
// does not depend on the libraries of Grafana and of Docker Compose.
package check
