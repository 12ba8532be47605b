package tenants

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A TensorBoard with thousands of sources of the same name", Label("tensorboard"), func() {
	// most is the maximum CPU time of the controller for the TensorBoards that createColliding creates. On 2 cores, the
	// controller uses about 3 s.
	const most = 20 * time.Second

	It("does not occupy the controller", func(ctx context.Context) {
		c := runController(ctx, tensorboard)
		c.createColliding(ctx)
		Eventually(ctx, c.withoutPhase(ctx)).Should(BeEmpty())
		c.works(ctx, tensorboard, "after")
		AddReportEntry("CPU time", c.cpu(tensorboard).String(), ReportEntryVisibilityAlways)
		Expect(c.cpu(tensorboard)).To(BeNumerically("<", most))
		c.expectUnharmed()
	})

	It("would occupy the controller if it searched the number of each run from the start", func(ctx context.Context) {
		s := tensorboard.with("the number of a run is searched from the start")
		c := runController(ctx, s)
		c.createColliding(ctx)
		Eventually(ctx, func() (time.Duration, error) { return c.cpu(s), c.harmed() }).
			WithTimeout(5 * bound).Should(BeNumerically(">", most))
	})
})

// createColliding creates twenty TensorBoards of the attacker with 4,096 sources each. All sources of a TensorBoard
// have the same name for their runs, so the controller must add numbers to the names.
func (c *cluster) createColliding(ctx context.Context) {
	GinkgoHelper()
	// The name of claim i has i+1 parts with hyphens between them. Each path in the claim has the rest of the 72 parts.
	// The first six separators of the path are hyphens or slashes, and the paths of a claim differ only there. In the
	// name of the runs, hyphens and slashes become the same character.
	const parts = 72
	var claims []any
	for i := range 64 {
		var paths []any
		for bits := range 64 {
			path := strings.Repeat("-a", parts-i-1)[1:]
			for bit := range 6 {
				if bits>>bit&1 == 1 {
					path = path[:2*bit+1] + "/" + path[2*bit+2:]
				}
			}
			paths = append(paths, path)
		}
		claims = append(claims, map[string]any{"name": "a" + strings.Repeat("-a", i), "subPath": paths})
	}
	const boards = 20
	for i := range boards {
		board := tensorboard.board(fmt.Sprintf("colliding-%d", i), false)
		Expect(unstructured.SetNestedSlice(board.Object, claims, "spec", "logDir", "pvc")).To(Succeed())
		Expect(create(ctx, c.attacker, attacker, board)).To(Succeed())
	}
}

// withoutPhase returns a function that returns the names of the TensorBoards of the attacker that have no phase. The
// controller has not reconciled these TensorBoards yet.
func (c *cluster) withoutPhase(ctx context.Context) func() ([]string, error) {
	return func() ([]string, error) {
		boards := &unstructured.UnstructuredList{}
		boards.SetGroupVersionKind(tensorboard.kind.GroupVersion().WithKind("TensorBoardList"))
		err := c.Client.List(ctx, boards, client.InNamespace(attacker))
		var names []string
		for _, board := range boards.Items {
			if phase, _, _ := unstructured.NestedString(board.Object, "status", "phase"); phase == "" {
				names = append(names, board.GetName())
			}
		}
		return names, c.unless(err)
	}
}

// cpu returns the CPU time that a controller has used.
func (c *cluster) cpu(s service) time.Duration {
	GinkgoHelper()
	usage, err := c.Usage(s.module + "-controller")
	Expect(err).NotTo(HaveOccurred())
	return usage.CPU
}
