import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Cases of a driver: each prints "ok NAME", or "FAILED NAME: reason" and the trace on standard error. */
final class Cases {
    interface Body {
        void run() throws Exception;
    }

    private static boolean failed;

    static void test(String name, Body body) {
        try {
            body.run();
            System.out.println("ok " + name);
        } catch (Exception | AssertionError error) {
            error.printStackTrace();
            failed = true;
            System.out.println("FAILED " + name + ": " + error.toString().replaceAll("\\s+", " "));
        }
    }

    static void same(Object got, Object wanted) {
        if (!Objects.equals(got, wanted))
            throw new AssertionError("got " + got + ", wanted " + wanted);
    }

    /** Returns the exception of this class that the call throws. */
    static <E extends Exception> E refused(Class<E> kind, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (Exception error) {
            if (kind.isInstance(error))
                return kind.cast(error);
            throw new AssertionError("no " + kind.getSimpleName() + ", but " + error, error);
        }
        throw new AssertionError("no " + kind.getSimpleName() + "; the call returned " + got);
    }

    static List<Integer> numbers(int from, int to, int step) {
        int count = Math.max(0, (to - from + step - Integer.signum(step)) / step);
        return IntStream.range(0, count).mapToObj(n -> from + n * step).collect(Collectors.toList());
    }

    static void waitFor(String what, Callable<Boolean> condition) throws Exception {
        for (long end = System.nanoTime() + 30_000_000_000L; !condition.call(); Thread.sleep(100)) {
            if (System.nanoTime() > end)
                throw new AssertionError(what + " took more than 30 s");
        }
    }

    static void finish() {
        System.exit(failed ? 1 : 0);
    }
}
