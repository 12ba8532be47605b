package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/chromedp/chromedp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

// scalarCharts selects the lines of TensorBoard's scalar charts, when they are drawn: paths of more than one point.
const scalarCharts = `scalar-card line-chart .series-view > svg > path[d*="L"]`

// screenshot opens a page in a headless browser until it shows what the CSS selector selects. It keeps a picture of
// what the page shows, and returns the text of it.
func screenshot(ctx context.Context, url, selector, picture string) string {
	GinkgoHelper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-3d-apis", true), // TensorBoard draws its charts as SVG then, which a selector finds
	)
	if browser := os.Getenv("CHROMIUM"); browser != "" {
		options = append(options, chromedp.ExecPath(browser))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has no sandbox
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	Expect(chromedp.Do(ctx)).To(Succeed(), "the browser starts: bin/localcluster browser installs one")

	show := func(g Gomega) {
		// The page does not look by itself for data that come after it.
		patience, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		missing := chromedp.Do(patience, chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(selector)))
		image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		g.Expect(err).NotTo(HaveOccurred())
		keep(picture, image) // above all if it shows something else
		g.Expect(missing).NotTo(HaveOccurred(), "%s does not show %s", url, selector)
	}
	Eventually(ctx, show).Should(Succeed())
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body")))
	Expect(err).NotTo(HaveOccurred())
	return text
}

// keep writes a file for people to look at after the tests, into $ARTIFACTS or bin/artifacts.
func keep(name string, content []byte) {
	GinkgoHelper()
	folder := cmp.Or(os.Getenv("ARTIFACTS"), filepath.Join(root, "bin/artifacts"))
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, name), content, 0o644)).To(Succeed())
}

// forward makes a port of a pod or Service reachable until the test ends, as a user would, and returns its address.
func (n namespace) forward(ctx context.Context, target, port string) string {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command("kubectl", "-n", string(n), "port-forward", target, ":"+port), GinkgoWriter,
		GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Terminate().Wait() })
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	Eventually(ctx, session.Out).Should(gbytes.Say(address.String()))
	return address.FindString(string(session.Out.Contents()))
}
