// Package style checks the texts of the repository against docs/contribute/style.md. `make lint` runs its tests.
package style
