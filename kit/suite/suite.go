// Package suite runs the specs of a package beside a controller, on a real API server. It is made for Ginkgo.
package suite

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/kit/controlplane"
)

// Run runs all specs of a package. They are about the controller of that name. A short run skips them.
func Run(t *testing.T, controller string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the specs take minutes")
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	gomega.EnforceDefaultTimeoutsWhenUsingContexts()
	gomega.SetDefaultEventuallyTimeout(time.Minute)
	gomega.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ginkgo.RunSpecs(t, controller)
}

// Controller is a program as it is shipped.
type Controller struct {
	manager.Program
	// Namespace that the controller is installed in.
	Namespace string
	// ConfigFolder has the CRD and the RBAC of the controller.
	ConfigFolder string
	// Components are the folders, in ConfigFolder, of kustomize components whose rights the controller has, too.
	Components []string
	// Options changes the options of the controller; nil for the defaults.
	Options func(*manager.Options)
	// Wrap is put around what the controller asks of the API server; nil for nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Start starts an API server, and the controller on it. Call it in BeforeSuite: both end with the suite.
func (c Controller) Start() *controlplane.ControlPlane {
	ginkgo.GinkgoHelper()
	logger := zap.New(zap.WriteTo(ginkgo.GinkgoWriter))
	ctrl.SetLogger(logger)
	ctx, stop := context.WithCancel(context.Background())
	plane, err := controlplane.Start(ctx, c.ConfigFolder, c.Namespace, c.Name, c.AddToScheme)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(plane.Stop)
	for _, component := range c.Components {
		gomega.Expect(plane.Grant(ctx, filepath.Join(c.ConfigFolder, component))).To(gomega.Succeed())
	}
	restricted := plane.Controller()
	if c.Wrap != nil {
		restricted.Wrap(c.Wrap)
	}
	options := plane.Options()
	if c.Options != nil {
		c.Options(&options)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Run(ctx, c.Program, restricted, options, logger) }()
	ginkgo.DeferCleanup(func() {
		stop()
		gomega.Eventually(stopped).Should(gomega.Receive(gomega.BeNil()))
	})
	return plane
}
