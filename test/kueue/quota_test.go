package kueue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/policy"
)

// jobWith creates a PyTorchTrainingJob with a number of replicas and a run policy.
func (c *cluster) jobWith(ctx context.Context, name string, replicas int, runPolicy string) job {
	GinkgoHelper()
	manifest := fmt.Sprintf(kinds[pytorch], name, "kueue.x-k8s.io/queue-name: queue")
	manifest = strings.Replace(manifest, "replicas: 2", fmt.Sprintf("replicas: %d", replicas), 1)
	c.apply(ctx, strings.Replace(manifest, "spec:\n", "spec:\n  runPolicy: {"+runPolicy+"}\n", 1))
	return job{cluster: c, kind: pytorch, name: name}
}

// succeeds lets the main container of a replica exit with 0. It returns when the status of the job shows that a replica
// has succeeded.
func (j job) succeeds(ctx context.Context, index int) {
	GinkgoHelper()
	j.ends(ctx, index)
	Eventually(ctx, func() (int32, error) {
		status, err := j.status(ctx)
		return ptr.Deref(status.Aggregate, batchv1beta1.Aggregate{}).Succeeded, err
	}).Should(BeNumerically(">", 0))
}

// waitsForQuota expects that a job waits for quota.
func (j job) waitsForQuota(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, j.state(ctx)).Should(MatchRegexp("^(Pending|Resuming) Queued: .*insufficient"))
}

// jobAndNext creates two jobs. The first one, j, runs and uses the whole quota. The second one waits for a part of
// it.
func (c *cluster) jobAndNext(ctx context.Context, runPolicy string) (j, next job) {
	GinkgoHelper()
	j = c.jobWith(ctx, "job", 2, runPolicy)
	Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
	next = c.jobWith(ctx, "other", 1, "")
	next.waitsForQuota(ctx)
	return j, next
}

// keepsQuota fails the spec if more pods can run at the same time than the quota of docs/operate/kueue.md allows. It
// lists the pods again and again until the spec ends.
func (c *cluster) keepsQuota(ctx context.Context) {
	var most atomic.Int32
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			var pods corev1.PodList
			if c.Client.List(ctx, &pods) != nil {
				continue
			}
			live := int32(0)
			for _, pod := range pods.Items {
				if mayRun(pod) {
					live++
				}
			}
			most.Store(max(most.Load(), live))
		}
	}()
	DeferCleanup(func() {
		cancel()
		<-done
		Expect(most.Load()).To(BeNumerically("<=", 2), "the queue has quota for 2 pods")
	})
}

var _ = Describe("A job in a queue of Kueue keeps within its quota", func() {
	var c *cluster
	BeforeEach(func(ctx context.Context) {
		c = start(ctx, configuration, "8")
		c.apply(ctx, queues)
		c.keepsQuota(ctx)
	})

	It("if all replicas restart after one has succeeded", func(ctx context.Context) {
		j, other := c.jobAndNext(ctx, "")
		j.succeeds(ctx, 1)
		j.exits(ctx, 0, 1)
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 1, backoffCount 1"))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		other.waitsForQuota(ctx)
		j.ends(ctx, 0)
		Eventually(ctx, other.state(ctx)).Should(Equal("Running"))
	})

	It("if a replica restarts alone after another one has succeeded", func(ctx context.Context) {
		j, other := c.jobAndNext(ctx, "restartScope: Replica")
		j.succeeds(ctx, 1)
		Eventually(ctx, other.state(ctx)).Should(Equal("Running"), "the quota of the replica is given back")
		j.exits(ctx, 0, 1)
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 0, backoffCount 1"))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))

		By("pausing and resuming the job, which needs two replicas again")
		c.patch(ctx, j.object(), `{"spec": {"runMode": {"pause": {"enabled": true}}}}`)
		Eventually(ctx, j.state(ctx)).Should(HavePrefix("Paused"))
		c.patch(ctx, j.object(), `{"spec": {"runMode": {"pause": {"enabled": false}}}}`)
		j.waitsForQuota(ctx)
		other.ends(ctx, 0)
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
	})

	It("if a replica that has failed restarts, because its backoffLimit is raised", func(ctx context.Context) {
		j, other := c.jobAndNext(ctx, "restartScope: Replica, backoffLimit: 0")
		j.exits(ctx, 1, 1)
		other.waitsForQuota(ctx)
		c.patch(ctx, j.object(), `{"spec": {"runPolicy": {"backoffLimit": 1}}}`)
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 0, backoffCount 1"))
		Eventually(ctx, j.pods(ctx)).Should(HaveEach(WithTransform(mayRun, BeTrue())))
		other.waitsForQuota(ctx)
	})

	It("if an elastic job starts again after a replica has ended", func(ctx context.Context) {
		c.apply(ctx, elasticJob)
		j := job{cluster: c, kind: pytorch, name: "elastic"}
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		other := c.jobWith(ctx, "other", 1, "")
		other.waitsForQuota(ctx)
		j.succeeds(ctx, 1)
		j.exits(ctx, 0, 1)
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 1, backoffCount 1"))
		Eventually(ctx, j.pods(ctx)).Should(HaveLen(2))
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		other.waitsForQuota(ctx)
	})

	It("if an earlier version of its controller gave back too much, without losing its turn", func(ctx context.Context) {
		j := c.jobWith(ctx, "job", 2, "")
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		other := c.jobWith(ctx, "other", 1, "")
		j.succeeds(ctx, 1)

		By("giving back the quota of the replica that has ended, as the earlier version does, and upgrading the controller")
		c.killController("pytorch")
		Expect(c.Client.Status().Patch(ctx, j.workloadObject(), client.RawPatch(types.MergePatchType,
			[]byte(`{"status": {"reclaimablePods": [{"name": "worker", "count": 1}]}}`)))).To(Succeed())
		c.startController("pytorch")
		Eventually(ctx, other.state(ctx)).Should(Equal("Running"))
		later := c.jobWith(ctx, "later", 2, "")
		later.waitsForQuota(ctx)
		Consistently(ctx, j.counts(ctx)).WithTimeout(3*time.Second).
			Should(Equal("evictions 0, pauses 0, attempt 0, backoffCount 0"), "the upgrade does not stop the job")

		By("letting the job restart, which needs the quota again")
		j.exits(ctx, 0, 1)
		Eventually(ctx, j.state(ctx)).Should(HavePrefix("Pending Queued: "))
		Eventually(ctx, j.counts(ctx)).Should(Equal("evictions 0, pauses 0, attempt 1, backoffCount 1"))
		other.ends(ctx, 0)
		Eventually(ctx, j.state(ctx)).Should(Equal("Running"))
		later.waitsForQuota(ctx)
		j.ends(ctx, 0)
		Eventually(ctx, later.state(ctx)).Should(Equal("Running"))
	})
})

func mayRun(pod corev1.Pod) bool { return policy.MayRun(&pod) }
