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

// scalarCharts is the CSS selector of the lines that the scalar charts of TensorBoard have drawn. Such a line is an
// SVG path with more than one point.
const scalarCharts = `scalar-card line-chart .series-view > svg > path[d*="L"]`

// screenshot opens a page in a headless browser, again and again until an element that matches the CSS selector is
// visible. It saves a picture of the page, and returns the text of the page.
func screenshot(ctx context.Context, url, selector, picture string) string {
	GinkgoHelper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-3d-apis", true), // so that TensorBoard draws its charts as SVG, which selectors can find
	)
	if browser := os.Getenv("CHROMIUM"); browser != "" {
		options = append(options, chromedp.ExecPath(browser))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // as root, Chromium only starts without its sandbox
	}
	ctx, cancel := chromedp.NewExecAllocator(ctx, options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	Expect(chromedp.Do(ctx)).To(Succeed(), "cannot start the browser: bin/localcluster browser installs one")

	show := func(g Gomega) {
		// The page does not load data that arrives later, so each try opens the page again.
		patience, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		missing := chromedp.Do(patience, chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(selector)))
		image, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		g.Expect(err).NotTo(HaveOccurred())
		keep(picture, image) // even if the page does not show the element
		g.Expect(missing).NotTo(HaveOccurred(), "%s does not show %s", url, selector)
	}
	Eventually(ctx, show).Should(Succeed())
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body")))
	Expect(err).NotTo(HaveOccurred())
	return text
}

// keep writes a file into the folder $ARTIFACTS, by default bin/artifacts, for people to look at after the tests.
func keep(name string, content []byte) {
	GinkgoHelper()
	folder := cmp.Or(os.Getenv("ARTIFACTS"), filepath.Join(root, "bin/artifacts"))
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, name), content, 0o644)).To(Succeed())
}

// forward runs kubectl port-forward for a port of a pod or Service until the test ends, and returns the local address.
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
