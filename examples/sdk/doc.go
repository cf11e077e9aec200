// Package sdk puts gates under the SDKs of vendors as a program would, each in a file of its own. docs/guide/sdks.md
// explains them.
package sdk
