# Compiles, packs and runs; the program starts children from four threads (through the runtime's own helper program).
mkdir -p java/src/org/example java/classes
cd java
cat >src/org/example/Part.java <<'JAVA'
package org.example;

record Part(int number) implements java.util.concurrent.Callable<Integer> {
    public Integer call() throws Exception {
        Process child = new ProcessBuilder("sh", "-c", "echo $0 | cat", Integer.toString(number)).start();
        int told = Integer.parseInt(new String(child.getInputStream().readAllBytes()).trim());
        return child.waitFor() == 0 ? told : -1000;
    }
}
JAVA
cat >src/org/example/Main.java <<'JAVA'
package org.example;

import java.util.concurrent.Executors;
import java.util.stream.IntStream;

public class Main {
    public static void main(String[] words) throws Exception {
        var pool = Executors.newFixedThreadPool(4);
        int sum = 0;
        for (var part : pool.invokeAll(IntStream.range(0, 60).mapToObj(Part::new).toList())) {
            sum += part.get();
        }
        pool.shutdown();
        System.out.println("sum " + sum);
        try {
            new ProcessBuilder("./none").start();
        } catch (java.io.IOException told) {
            System.out.println("none " + told.getMessage().contains("error=2"));
        }
        System.out.println("status " + new ProcessBuilder("sh", "-c", "exit 5").start().waitFor());
    }
}
JAVA
javac -d classes src/org/example/*.java
jar --create --file main.jar --main-class org.example.Main -C classes .
java -Xshare:auto -jar main.jar
jar --list --file main.jar | sort
